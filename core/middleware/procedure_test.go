package middleware_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

func TestServiceOfAMethod(t *testing.T) {
	for method, want := range map[string]string{
		"/files.v1.Files/Read":           "files.v1.Files",
		"/files.v1.Files/x/Read":         "files.v1.Files/x", // as servers route it
		"//files.v1.Files/Read":          "/files.v1.Files",
		"/files.v1.Files":                "",
		"files.v1.Files":                 "",
		"/":                              "",
		"":                               "",
		"/Read":                          "",
		"/grpc.health.v1.Health/x/Check": "grpc.health.v1.Health/x",
	} {
		assert.Equal(t, want, middleware.ServiceOf(method), method)
	}
}
