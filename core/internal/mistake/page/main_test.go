package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core/internal/mistake"
)

func TestThePageIsWhatTheTableSays(t *testing.T) {
	have, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Equal(t, text(), string(have), "run go generate ./core/internal/mistake/page")
}

func TestCodesStandInOrderAndFieldsHaveOne(t *testing.T) {
	last, codes := "", map[string]string{}
	for _, kind := range mistake.Kinds {
		assert.Regexp(t, `^RL\d{3}$`, kind.Code)
		assert.Less(t, last, kind.Code, "each once")
		assert.NotEmpty(t, kind.Messages, kind.Code)
		for _, field := range kind.Fields {
			assert.Empty(t, codes[field], "%s is a field of %s", field, kind.Code)
			codes[field] = kind.Code
		}
		last = kind.Code
	}
}
