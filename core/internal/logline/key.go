// Package logline has what log lines need: keys that can't be read from them,
// and a bound on how many there are. It is a package because core, stores and
// package denied show a key alike.
package logline

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"sync"
)

// MinSecret is how many bytes a secret has at least. Nobody can try all secrets
// of this length.
const MinSecret = 16

// processSecret is the secret of limiters that were given none. It is another
// one in each process.
var processSecret = sync.OnceValue(func() []byte {
	secret := make([]byte, sha256.Size)
	_, _ = rand.Read(secret) // never fails
	return secret
})

// Key returns the first 12 hex digits of key's HMAC-SHA256 by secret. Nil
// stands for a random secret of this process.
func Key(secret []byte, key string) string {
	if secret == nil {
		secret = processSecret()
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(key))
	return hex.EncodeToString(mac.Sum(nil)[:6])
}
