package ginlimit

import (
	"errors"
	"net/http"
	"sync"

	"github.com/gin-gonic/gin"

	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// stored returns the decision about the request that was stored last, or nil.
// HandleContext, which routes a request again, removes all values of the
// context, so the request remembers the decision meanwhile.
func stored(c *gin.Context) *middleware.Decision {
	if d, ok := c.Get(decisionKey); ok {
		d, _ := d.(*middleware.Decision)
		return d
	}
	if c.Request.Response != nil {
		if m, ok := c.Request.Response.Body.(*memory); ok {
			return m.decision
		}
	}
	return nil
}

// memory is in a request while the handlers behind a limiter run. It is in the
// field Response, which only clients use.
type memory struct {
	decision *middleware.Decision
	response http.Response // whose body is the memory itself
	request  *http.Request
	before   *http.Response
}

var memories = sync.Pool{New: func() any { return new(memory) }}

// remember keeps the decision about c's request in the request until forget. It
// returns nil if there is none.
func remember(c *gin.Context) *memory {
	d := stored(c)
	if d == nil {
		return nil
	}
	m := memories.Get().(*memory)
	m.decision, m.request, m.before = d, c.Request, c.Request.Response
	m.response.Body = m
	c.Request.Response = &m.response
	return m
}

func (m *memory) forget(c *gin.Context) {
	if m == nil {
		return
	}
	request := m.request
	request.Response = m.before
	if c.Request == request { // otherwise a copy of the request, which middleware has made, still has the memory
		*m = memory{}
		memories.Put(m)
	}
}

var errNoBody = errors.New("ratelimit: this response has no body")

// Read makes a memory the body of a response. Nobody reads it.
func (*memory) Read([]byte) (int, error) { return 0, errNoBody }

// Close does nothing.
func (*memory) Close() error { return nil }
