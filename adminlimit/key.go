package adminlimit

import (
	"net/http"
	"strconv"
	"strings"
	"unicode"

	"github.com/tokenbucket-go/ratelimit/internal/oncall"
)

// given returns the key that someone gives in a form, as [oncall.ShownKey]
// shows it.
func given(text string) (key string, failed *failure) {
	key, err := oncall.GivenKey(text)
	if err != nil {
		return "", &failure{http.StatusBadRequest, err.Error()}
	}
	return key, nil
}

// shown returns s, which is no key, as the page shows it: quoted if it has
// bytes that nobody can see, or that change how others are read.
func shown(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) {
		return strconv.Quote(s)
	}
	return s
}
