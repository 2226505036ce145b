// Package pictures draws docs/pictures. Each picture shows what the library
// does in a synctest bubble, whose clock is exact: the curves and instants are
// real decisions. Run go generate ./internal/pictures after a change.
// TestPicturesAreUpToDate fails until then.
package pictures

//go:generate go test -run TestPicturesAreUpToDate . -write

// pictures are the files of docs/pictures, and what draws each. A function must
// run in a bubble of its own.
var pictures = map[string]func() *canvas{
	"bucket.svg":       drawBucket,
	"burst.svg":        drawBurst,
	"first-minute.svg": drawFirstMinute,
	"modes.svg":        drawModes,
	"month.svg":        drawMonth,
	"outage.svg":       drawOutage,
	"request.svg":      drawRequest,
	"leases.svg":       drawLeases,
	"settle.svg":       drawSettle,
}
