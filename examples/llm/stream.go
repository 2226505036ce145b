package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// model is a provider of a language model.
type model struct {
	url    string
	within time.Duration // which the provider must begin to answer, and a client must read an event
	atMost time.Duration // for a whole call
}

// event is one server-sent event of the provider: a token, or the usage so far.
type event struct {
	Text  string `json:"text,omitempty"`
	Usage *usage `json:"usage,omitempty"`
	Done  bool   `json:"done,omitempty"` // the usage is that of the whole call
}

// forward sends the call to the provider, and passes its events on as they
// come. If the client hangs up, or does not read, the provider stops
// generating.
func (m model) forward(w http.ResponseWriter, r *http.Request) {
	c := callOf(r)
	ctx, cancel := context.WithTimeout(r.Context(), m.atMost)
	defer cancel()
	tooLate := time.AfterFunc(m.within, cancel)
	body, _ := json.Marshal(c) // it was made from JSON
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.url, bytes.NewReader(body))
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
	tooLate.Stop()
	if res.StatusCode != http.StatusOK {
		c.refused = true
		http.Error(w, http.StatusText(http.StatusBadGateway), http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	client := http.NewResponseController(w)
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		c.count(lines.Text())
		_ = client.SetWriteDeadline(time.Now().Add(m.within)) // in place of the server's WriteTimeout; net/http has it
		if _, err := fmt.Fprintln(w, lines.Text()); err != nil {
			return // the client has gone, or does not read
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

// count notes what the provider says that the whole call took.
func (c *call) count(line string) {
	data, isData := strings.CutPrefix(line, "data: ")
	var e event
	if isData && json.Unmarshal([]byte(data), &e) == nil && e.Done {
		c.took = e.Usage
	}
}
