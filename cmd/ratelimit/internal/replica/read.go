package replica

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/conn"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core/denied"
	"github.com/tokenbucket-go/ratelimit/internal/oncall"
)

const (
	together = 16       // so many replicas are asked at once
	longest  = 32 << 20 // bytes: three times an answer with 10,000 keys of 128 bytes
)

// Policy is a policy that a replica has in force.
type Policy struct {
	Name string `json:"name"` // of the policy
	Hash string `json:"hash"` // of its definition: it differs if that does

	Exceptions *oncall.Exceptions `json:"exceptions,omitempty"` // that it obeys; missing: its adminlimit is of an earlier version
}

// Answer is what a replica answers.
type Answer struct {
	URL      string         `json:"url"`                // without credentials
	Error    string         `json:"error,omitempty"`    // why it could not be read; then there is nothing else
	Policies []Policy       `json:"policies,omitempty"` // that are in force there
	Denied   *denied.Report `json:"-"`                  // nil: it could not be read, or nothing counts denials
}

// Read asks all replicas, and returns their answers in the same order.
func Read(ctx context.Context, replicas []*Replica) []Answer {
	answers := make([]Answer, len(replicas))
	var all sync.WaitGroup
	free := make(chan struct{}, together)
	for i, r := range replicas {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			answers[i] = r.read(ctx)
		})
	}
	all.Wait()
	return answers
}

func (r *Replica) read(ctx context.Context) Answer {
	a := Answer{URL: r.Where}
	response, err := r.ask(ctx)
	if err == nil {
		defer func() { _ = response.Body.Close() }()
		var body []byte
		if body, err = io.ReadAll(io.LimitReader(response.Body, longest+1)); err == nil {
			a.Error = a.decode(response, body)
		}
	}
	if err != nil {
		a.Error = why(err, strings.HasPrefix(r.Where, "https:"))
	}
	if a.Error != "" {
		a.Error, a.Policies, a.Denied = rename(a.Error, r.prefix), nil, nil
	}
	return a
}

func (r *Replica) ask(ctx context.Context) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url, nil)
	if err != nil {
		return nil, err
	}
	request.Header = r.fields.Clone()
	return r.client.Do(request)
}

// decode reads an answer. It returns why that can't be done, or "".
func (a *Answer) decode(response *http.Response, body []byte) string {
	if response.StatusCode != http.StatusOK {
		return refusal(response, body)
	}
	if len(body) > longest {
		return fmt.Sprintf("the answer is longer than %d MiB, so it is not adminlimit's: check the URL", longest>>20)
	}
	var state struct {
		Policies []Policy       `json:"policies"`
		Denied   *denied.Report `json:"denied"`
	}
	switch err := json.Unmarshal(body, &state); {
	case err != nil, len(state.Policies) == 0:
		return "the answer is not that of adminlimit: check the URL's path, and that no page to log in stands before it"
	}
	a.Policies, a.Denied = state.Policies, state.Denied
	for _, p := range a.Policies {
		if x := p.Exceptions; x != nil {
			x.List = append([]oncall.Exception{}, x.List...) // it may be null
			for i := range x.List {
				x.List[i].Bytes = nil // of a key that is hidden perhaps
			}
		}
	}
	return ""
}

// refusal is why a status is not 200.
func refusal(response *http.Response, body []byte) string {
	status := response.Status
	switch code := response.StatusCode; {
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return status + ": say who asks by -user NAME:PASSWORD or -header, as the service's authoriser wants it"
	case code >= 300 && code < 400:
		to := "elsewhere"
		if u, err := response.Location(); err == nil { // its query could have credentials
			to = "to " + show.Text(u.Scheme+"://"+u.Host+u.Path)
		}
		return status + " " + to + ": give the URL of the handler itself; if that is a page to log in, say who asks by -user or -header"
	case code == http.StatusBadRequest && strings.Contains(string(body[:min(len(body), 1000)]), "HTTPS"):
		return "it speaks TLS at this port: write https://"
	case code == http.StatusNotFound || code == http.StatusMethodNotAllowed:
		return status + ": adminlimit is not mounted at this path"
	}
	return status
}

// why is why there is no answer, without the URL, whose scheme may be secure.
func why(err error, secure bool) string {
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return "no answer in time: check host and port; a slow replica needs a longer -timeout"
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	text := err.Error()
	switch {
	case strings.Contains(text, "server gave HTTP response to HTTPS client"):
		return "it speaks no TLS at this port: write http://"
	case strings.Contains(text, `malformed HTTP response "\x15\x03`):
		return "it speaks TLS at this port: write https://"
	case strings.Contains(text, "malformed HTTP"), strings.Contains(text, "first record does not look like a TLS handshake"):
		return "no HTTP server has this port: name the one where the service mounts adminlimit"
	}
	if errors.Is(err, io.EOF) || strings.Contains(text, "connection reset") || strings.Contains(text, "broken pipe") {
		text = "it closed the connection without an answer: check that the port is the one where the service mounts adminlimit"
		if secure {
			text += "; if it wants a certificate, give it by -cert and -key"
		}
		return text
	}
	text = show.Text(text)
	if advice := conn.CertificateAdvice(err); advice != "" {
		text += " (" + advice + ")"
	}
	return text
}
