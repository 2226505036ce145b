package accesslog_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/accesslog"
)

func TestParseZoneSaysWhatToWrite(t *testing.T) {
	for _, name := range []string{"Europe/Berlin", "UTC", "America/New_York", "Etc/GMT-2"} {
		zone, err := accesslog.ParseZone(name)
		require.NoError(t, err, name)
		assert.Equal(t, name, zone.String())
	}
	for name, hint := range map[string]string{
		"Berlin": "did you mean Europe/Berlin?", "europe/berlin": "did you mean Europe/Berlin?", "new york": "did you mean America/New_York?", "utc": "did you mean UTC?",
		"+02:00": "write Etc/GMT-2", "-05:00": "write Etc/GMT+5", "+05:30": "write the zone of a place", "Local": "on each machine", "Mars": "is not a time zone such as Europe/Berlin", "../etc/passwd": "is not a time zone",
		"\x1b[2J": `"\x1b[2J" is not a time zone`,
	} {
		_, err := accesslog.ParseZone(name)
		require.ErrorContains(t, err, hint, name)
		if hint == "is not a time zone such as Europe/Berlin" {
			assert.NotContains(t, err.Error(), "did you mean")
		}
	}
}
