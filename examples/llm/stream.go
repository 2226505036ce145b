package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// event is one server-sent event of the provider: a token, or the usage so far.
type event struct {
	Text  string `json:"text,omitempty"`
	Usage *usage `json:"usage,omitempty"`
}

// forward sends the call to the provider, and passes its events on as they come.
func forward(provider string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := callOf(r)
		body, _ := json.Marshal(c) // it was made from JSON
		// With the context of the client: if the client hangs up, the provider stops generating.
		req, err := http.NewRequestWithContext(r.Context(), http.MethodPost, provider, bytes.NewReader(body))
		if err != nil {
			http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
			return
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			http.Error(w, http.StatusText(http.StatusBadGateway), http.StatusBadGateway)
			return
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			http.Error(w, http.StatusText(http.StatusBadGateway), http.StatusBadGateway)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		client := http.NewResponseController(w)
		lines := bufio.NewScanner(res.Body)
		for lines.Scan() {
			c.count(lines.Text()) // first, for the provider has generated it whether or not the client gets it
			if _, err := fmt.Fprintln(w, lines.Text()); err != nil {
				return // the client has gone
			}
			if lines.Text() == "" { // the end of an event
				if err := client.Flush(); err != nil {
					return
				}
			}
		}
		if lines.Err() != nil {
			panic(http.ErrAbortHandler) // so that the client does not take it for the end of the story
		}
	}
}

// count adds a line of the stream to what the call has used. The provider's own count replaces it.
func (c *call) count(line string) {
	data, isData := strings.CutPrefix(line, "data: ")
	var e event
	switch {
	case !isData || json.Unmarshal([]byte(data), &e) != nil:
	case e.Usage != nil:
		c.used = *e.Usage
	case e.Text != "":
		c.used.Completion++
	}
}
