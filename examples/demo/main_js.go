// The demo in a page without a server: a worker of the page runs this program,
// compiled to WebAssembly, and asks it in place of a server. See page/tab.js.
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall/js"
)

// address is where requests come from, as a page has none.
const address = "127.0.0.1"

func main() {
	b := inProcess()
	b.text = placeInPage
	d, err := newDemo(b, address)
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
	d.send = func(ctx context.Context, path string, header http.Header) (int, error) {
		return d.answer(ctx, http.MethodGet, path, header, "").status, nil
	}
	js.Global().Set("demo", map[string]any{"ask": js.FuncOf(d.ask), "open": js.FuncOf(d.open)})
	d.tick(context.Background())
}

// ask is a function of JavaScript: ask(method, path, body, answer) has a request
// answered, and calls answer(status, text).
func (d *demo) ask(_ js.Value, args []js.Value) any {
	method, path, body, answer := args[0].String(), args[1].String(), args[2].String(), args[3]
	go func() { // a function of JavaScript must not wait
		a := d.answer(context.Background(), method, path, http.Header{}, body)
		answer.Invoke(a.status, a.body.String())
	}()
	return nil
}

// answer has the mux answer a request.
func (d *demo) answer(ctx context.Context, method, path string, header http.Header, body string) *answer {
	u, err := url.Parse(path)
	if err != nil {
		return &answer{status: http.StatusNotFound}
	}
	r := &http.Request{
		Method: method, URL: u, Host: "demo", RemoteAddr: address + ":80", Header: header,
		ContentLength: int64(len(body)), Body: io.NopCloser(strings.NewReader(body)),
	}
	return answerOf(d.mux, r.WithContext(ctx))
}

// open is a function of JavaScript: open(hear) calls hear(name, data) for all
// that pages are told, from the greeting on. It returns a function that ends
// this.
func (d *demo) open(_ js.Value, args []js.Value) any {
	ctx, end := context.WithCancel(context.Background())
	go func() {
		g, page := d.greet(ctx)
		defer d.hub.leave(page)
		told := encode("hello", g)
		for open := true; open; {
			args[0].Invoke(told.name, string(told.data))
			select {
			case told, open = <-page:
			case <-ctx.Done():
				return
			}
		}
	}()
	return js.FuncOf(func(js.Value, []js.Value) any {
		end()
		return nil
	})
}
