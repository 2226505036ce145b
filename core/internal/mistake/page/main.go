// Command page writes docs/errors.md: the codes of package mistake between the
// text of frame.md.
package main

import (
	_ "embed"
	"fmt"
	"log"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core/internal/mistake"
)

//go:generate go run .

const page = "../../../../docs/errors.md" // seen from this package

//go:embed frame.md
var frame string

// sections stands in the frame for the codes with these first letters.
var sections = regexp.MustCompile(`\{\{(RL\d)\}\}\n`)

func main() {
	if err := os.WriteFile(page, []byte(text()), 0o644); err != nil { //nolint:gosec // everybody may read it
		log.Fatal(err)
	}
}

// text returns the page.
func text() string {
	return sections.ReplaceAllStringFunc(frame, func(match string) string {
		begin := sections.FindStringSubmatch(match)[1]
		var parts []string
		for _, kind := range mistake.Kinds {
			if strings.HasPrefix(kind.Code, begin) {
				parts = append(parts, section(kind))
			}
		}
		return strings.Join(parts, "\n")
	})
}

// section returns what the page says of a kind.
func section(kind mistake.Kind) string {
	parts := []string{"### " + kind.Code, "```text\n" + strings.Join(kind.Messages, "\n") + "\n```", kind.Advice}
	parts = slices.DeleteFunc(parts, func(part string) bool { return part == "" })
	return fmt.Sprintln(strings.Join(parts, "\n\n"))
}
