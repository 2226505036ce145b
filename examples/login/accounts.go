package main

import (
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"

	"github.com/tokenbucket-go/ratelimit/core"
)

// accounts stands for your database of users.
type accounts struct {
	iterations int
	known      map[string]salted
	nobody     salted // what unknown accounts are compared with, so that they take as long
}

type salted struct{ salt, hash []byte }

func newAccounts(iterations int, passwords map[string]string) *accounts {
	a := &accounts{iterations: iterations, known: make(map[string]salted)}
	for user, password := range passwords {
		a.known[user] = a.salt(password)
	}
	a.nobody = a.salt(rand.Text())
	return a
}

func (a *accounts) salt(password string) salted {
	salt := []byte(rand.Text())
	return salted{salt, a.hash(password, salt)}
}

func (a *accounts) hash(password string, salt []byte) []byte {
	return core.Must(pbkdf2.Key(sha256.New, password, salt, a.iterations, sha256.Size))
}

func (a *accounts) exists(user string) bool { _, known := a.known[user]; return known }

// check takes the same time for every account.
func (a *accounts) check(user, password string) bool {
	want, known := a.known[user]
	if !known {
		want = a.nobody
	}
	same := subtle.ConstantTimeCompare(a.hash(password, want.salt), want.hash) == 1
	return same && known
}
