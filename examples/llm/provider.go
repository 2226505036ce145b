package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// story is what the fake model generates.
var story = strings.Fields(`Once upon a time there was a bucket. Every minute somebody filled it, and all day long people
	came to drink. One of them was very thirsty. He drank the bucket dry, and had to wait, as everybody else did.`)

// provider returns a fake of a language model, whose tokens are words. It
// reports the tokens of the prompt first, and all that were used in the end.
func provider(pause time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var c call
		if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		used := usage{Prompt: int64(len(strings.Fields(c.Prompt)))}
		send(w, event{Usage: &used})
		for _, word := range story[:min(int64(len(story)), c.MaxTokens)] {
			select {
			case <-r.Context().Done(): // nobody listens any more
				return
			case <-time.After(pause):
			}
			send(w, event{Text: word + " "})
			used.Completion++
		}
		send(w, event{Usage: &used, Done: true})
	})
}

// send sends an event at once.
func send(w http.ResponseWriter, e event) {
	data, _ := json.Marshal(e) // it has a form in JSON
	fmt.Fprintf(w, "data: %s\n\n", data)
	_ = http.NewResponseController(w).Flush() // it fails only if the client has gone
}
