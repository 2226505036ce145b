package adaptertest

import "time"

// SetPatience makes checks of broken adapters fail sooner.
func SetPatience(step, rule time.Duration) { patience, longest = step, rule }
