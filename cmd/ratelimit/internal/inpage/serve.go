//go:build js

package inpage

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"syscall/js"
	"time"
)

// Question is a message of the page. It waits for one answer.
type Question struct {
	data js.Value
}

// Read reads what is asked.
func (q Question) Read(into any) error {
	return json.Unmarshal([]byte(q.data.Get("text").String()), into)
}

// Tell sends something to the page before the answer.
func (q Question) Tell(what any) { q.send("told", what) }

func (q Question) send(as string, what any) {
	text, err := json.Marshal(what)
	if err != nil {
		as, text = "failed", []byte(fmt.Sprintf("%q", err))
	}
	reply := map[string]any{"id": q.data.Get("id"), as: js.Global().Get("JSON").Call("parse", string(text))}
	js.Global().Call("postMessage", reply)
}

// Answers are functions by the name of what they answer. A function that
// returns an error has it sent as text.
type Answers map[string]func(ctx context.Context, q Question) (any, error)

// Serve answers questions, several at a time, and never returns. A message is
// {id, ask, text, file}: ask names the answer, text is JSON. Replies are {id,
// told}, and at the end {id, answer} or {id, failed}. The message {cancel: id}
// ends a question's context.
func Serve(answers Answers) {
	var mu sync.Mutex
	under := make(map[int]context.CancelFunc)
	js.Global().Set("onmessage", js.FuncOf(func(_ js.Value, args []js.Value) any {
		data := args[0].Get("data")
		mu.Lock()
		defer mu.Unlock()
		if id := data.Get("cancel"); id.Type() == js.TypeNumber {
			if cancel := under[id.Int()]; cancel != nil {
				cancel()
			}
			return nil
		}
		ctx, cancel := context.WithCancel(context.Background())
		id := data.Get("id").Int()
		under[id] = cancel
		go func() {
			q := Question{data}
			answer, err := answers[data.Get("ask").String()](&turns{Context: ctx, last: time.Now()}, q)
			if err != nil {
				q.send("failed", err.Error())
			} else {
				q.send("answer", answer)
			}
			mu.Lock()
			defer mu.Unlock()
			delete(under, id)
			cancel()
		}()
		return nil
	}))
	js.Global().Call("postMessage", map[string]any{"ready": true})
	select {}
}

// turns is a context for long computations: when they ask for its error, the
// page is heard too. Otherwise a program, which is one thread, hears nothing
// until it waits.
type turns struct {
	context.Context

	last time.Time
}

// turn is for how long the page is not heard, at least.
const turn = 40 * time.Millisecond

func (t *turns) Err() error {
	if time.Since(t.last) > turn {
		time.Sleep(time.Nanosecond)
		t.last = time.Now()
	}
	return t.Context.Err()
}
