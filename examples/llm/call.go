package main

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// The largest call must fit into the smallest bucket, or it could never pass.
const (
	maxBody   = 4 << 10
	maxTokens = 2_000
)

// account is the owner of an API key. Limits go by its names: secrets stay out
// of Redis and out of policies.yaml.
type account struct{ key, organisation string }

// accountOf returns whose API key it is. Yours are random, and their hashes
// stand in your database.
func accountOf(secret string) (owner account) {
	got := sha256.Sum256([]byte(secret))
	for secret, account := range map[string]account{
		"ann-secret": {"ann", "acme"},
		"bob-secret": {"bob", "acme"},
		"cid-secret": {"cid", "initech"},
	} {
		want := sha256.Sum256([]byte(secret))
		if subtle.ConstantTimeCompare(got[:], want[:]) == 1 {
			owner = account
		}
	}
	return owner
}

// call is a request to the model. The handlers of one HTTP request share it.
type call struct {
	account   `json:"-"`
	Prompt    string `json:"prompt"`
	MaxTokens int64  `json:"max_tokens"`

	refused bool   // by the provider, before it generated anything
	took    *usage // as the provider has said when it was done
}

// usage is what the provider charges for, in tokens.
type usage struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
}

type callKey struct{}

// callOf returns the call that identify has read.
func callOf(r *http.Request) *call { return r.Context().Value(callKey{}).(*call) }

// identify finds the account of the API key and reads the call, before the
// limiters ask for them.
func identify(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secret, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		owner := accountOf(secret)
		if owner.key == "" {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "unknown API key", http.StatusUnauthorized)
			return
		}
		c := &call{account: owner}
		err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(c)
		switch {
		case errors.As(err, new(*http.MaxBytesError)):
			http.Error(w, fmt.Sprintf("at most %d bytes", maxBody), http.StatusRequestEntityTooLarge)
			return
		case err != nil:
			http.Error(w, "unreadable JSON", http.StatusBadRequest)
			return
		case c.MaxTokens < 1 || c.MaxTokens > maxTokens:
			http.Error(w, fmt.Sprintf("max_tokens must be from 1 to %d", maxTokens), http.StatusBadRequest)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callKey{}, c)))
	})
}
