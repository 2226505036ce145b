// Package output is the JSON that commands print. The command help json, whose
// text is made of the types of these objects, describes it.
package output

import (
	"encoding/json"
	"io"
)

// Version is the version of all objects. It changes if a member goes away or
// means something else, and not if one is added.
const Version = 1

// Head is what every object begins with.
type Head struct {
	Version int `json:"version"` // of these objects: 1
}

func (h *Head) stamp() { h.Version = Version }

// Object is what a command prints: a struct that embeds [Head].
type Object interface{ stamp() }

// Write writes an object over several lines.
func Write(w io.Writer, o Object) error { return write(w, o, "  ") }

// Line writes an object on one line, as where more will follow.
func Line(w io.Writer, o Object) error { return write(w, o, "") }

func write(w io.Writer, o Object, indent string) error {
	o.stamp()
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	return e.Encode(o)
}
