package mcplimit

import (
	"crypto/rand"
	"runtime"
	"sync"
	"weak"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// connections names the sessions whose transport gives them no id.
var connections identities

// identities gives each session an id that no other has, in no process. It
// keeps no session alive, and forgets those that are gone. It is safe for
// concurrent use.
type identities struct {
	ids sync.Map // of weak.Pointer[mcp.ServerSession] to string
}

func (i *identities) id(session *mcp.ServerSession) string {
	pointer := weak.Make(session)
	if id, ok := i.ids.Load(pointer); ok {
		return id.(string)
	}
	id, known := i.ids.LoadOrStore(pointer, rand.Text())
	if !known {
		runtime.AddCleanup(session, func(p weak.Pointer[mcp.ServerSession]) { i.ids.Delete(p) }, pointer)
	}
	return id.(string)
}
