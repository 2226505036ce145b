package main

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// devices knows the devices on which an account has logged in, by a signed
// cookie. Nothing is stored. The cookie is no session: it only says by which
// limits the next login is decided.
type devices struct{ secret []byte }

const (
	deviceCookie = "known-device"
	linkLasts    = time.Hour
)

// sign returns a signature of parts, which can't be read as those of others.
func (d devices) sign(parts ...string) string {
	mac := hmac.New(sha256.New, d.secret)
	mac.Write([]byte(core.JoinKey(parts...)))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func (d devices) signed(signature string, parts ...string) bool {
	return hmac.Equal([]byte(signature), []byte(d.sign(parts...)))
}

// remember makes the client a known device of user.
func (d devices) remember(w http.ResponseWriter, user string) {
	id := rand.Text()
	http.SetCookie(w, &http.Cookie{
		Name: deviceCookie, Value: id + "." + d.sign("device", user, id), Path: "/login",
		MaxAge: 180 * 24 * 3600, HttpOnly: true, Secure: true, SameSite: http.SameSiteStrictMode,
	})
}

// of returns the device's name, if it is one of user.
func (d devices) of(r *http.Request, user string) (id string, known bool) {
	cookie, err := r.Cookie(deviceCookie)
	if err != nil {
		return "", false
	}
	id, signature, _ := strings.Cut(cookie.Value, ".")
	return id, d.signed(signature, "device", user, id)
}

// link returns the path of a link that makes a device known.
func (d devices) link(user string) string {
	until := strconv.FormatInt(time.Now().Add(linkLasts).Unix(), 10)
	return "/device?" + url.Values{"user": {user}, "until": {until}, "sign": {d.sign("link", user, until)}}.Encode()
}

// opened returns whose link a request has opened.
func (d devices) opened(r *http.Request) (user string, ok bool) {
	q := r.URL.Query()
	user, until := q.Get("user"), q.Get("until")
	seconds, err := strconv.ParseInt(until, 10, 64)
	if err != nil || time.Now().Unix() > seconds {
		return "", false
	}
	return user, d.signed(q.Get("sign"), "link", user, until)
}
