package show

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// Keys are how keys, which can be personal data, stand in output.
type Keys struct {
	mode   string
	secret []byte
}

// SecretVariable is the environment variable with the secret of
// core.WithKeySecret.
const SecretVariable = "LOG_KEY_SECRET"

// minSecret is the least length of a secret for core.WithKeySecret.
const minSecret = 16

// ErrSecret means that a secret is too short.
var ErrSecret = errors.New(SecretVariable + " must have at least 16 bytes: it is the secret that the service gives core.WithKeySecret")

// ParseKeys reads a mode: show, hash or hide. The secret is for hash; if it is
// empty, hashes are by a random secret, and differ each time.
func ParseKeys(mode, secret string) (Keys, error) {
	switch mode {
	case "show", "hide":
	case "hash":
		if secret == "" {
			random := make([]byte, sha256.Size)
			_, _ = rand.Read(random) // never fails
			return Keys{mode, random}, nil
		}
		if len(secret) < minSecret {
			return Keys{}, ErrSecret
		}
	default:
		return Keys{}, fmt.Errorf("-keys %q must be show, hash or hide", mode)
	}
	return Keys{mode, []byte(secret)}, nil
}

// Hidden reports whether keys can't be read from the output.
func (k Keys) Hidden() bool { return k.mode == "hash" || k.mode == "hide" }

// Hashes reports whether keys become hashes by the secret of [SecretVariable],
// or by a random one.
func (k Keys) Hashes() bool { return k.mode == "hash" }

// Text is a key as the output shows it: whole, and so that a command takes it.
func (k Keys) Text(key string) string {
	switch k.mode {
	case "hash":
		return Hash(k.secret, key)
	case "hide": // the first part of a key that no extractor makes can be a client
		kind, _, ok := strings.Cut(key, ":")
		if !ok {
			kind = ""
		}
		return kind + ":…"
	}
	return Key(key)
}

// Bytes is a key for JSON that has [Keys.Text] beside it, or nil if that is the
// key or hides it.
func (k Keys) Bytes(key string) []byte {
	if k.Hidden() || k.Text(key) == key {
		return nil
	}
	return []byte(key)
}

// Hash is a key as the log of a limiter with core.WithKeySecret has it: the
// first 12 hex digits of its HMAC-SHA256.
func Hash(secret []byte, key string) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(key))
	return hex.EncodeToString(mac.Sum(nil)[:6])
}
