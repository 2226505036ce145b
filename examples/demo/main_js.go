// The demo in a page without a server: a worker of the page runs this program,
// compiled to WebAssembly, and asks it in place of a server. See page/tab.js.
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall/js"
)

func main() {
	d, err := newDemo(inProcess("page"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
	js.Global().Set("demo", map[string]any{"ask": js.FuncOf(d.ask), "open": js.FuncOf(d.open)})
	d.tick(context.Background())
}

// ask is a function of JavaScript: ask(method, path, body, answer) has a request
// answered, and calls answer(status, text).
func (d *demo) ask(_ js.Value, args []js.Value) any {
	method, path, body, tell := args[0].String(), args[1].String(), args[2].String(), args[3]
	go func() { // a function of JavaScript must not wait
		a := &answer{header: http.Header{}, status: http.StatusOK}
		r, err := http.NewRequest(method, path, io.NopCloser(strings.NewReader(body)))
		if err != nil {
			tell.Invoke(http.StatusBadRequest, err.Error())
			return
		}
		d.mux.ServeHTTP(a, r)
		tell.Invoke(a.status, a.body.String())
	}()
	return nil
}

// open is a function of JavaScript: open(hear) calls hear(name, data) for all
// that the page is told, from the greeting on.
func (d *demo) open(_ js.Value, args []js.Value) any {
	go func() {
		for { // again, if the page was too far behind
			m, page := d.greet(context.Background())
			for open := true; open; m, open = <-page {
				args[0].Invoke(m.name, string(m.data))
			}
		}
	}()
	return nil
}
