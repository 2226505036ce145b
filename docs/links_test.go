package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every link within the repository leads to a file, and to a heading of it.
func TestLinksLeadSomewhere(t *testing.T) {
	code := regexp.MustCompile("(?ms)^```.*?^```|`[^`\n]*`")
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, page := range append(append(glob(t, "*.md"), glob(t, "../*.md")...), "../examples/README.md") {
		for _, found := range link.FindAllStringSubmatch(code.ReplaceAllString(string(read(t, page)), ""), -1) {
			target, anchor, _ := strings.Cut(found[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			path := page
			if target != "" {
				path = filepath.Join(filepath.Dir(page), target)
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s links to %s, which does not exist", page, found[1])
				continue
			}
			if anchor != "" && !anchors(t, path)[anchor] {
				t.Errorf("%s links to %s, which has no such heading", page, found[1])
			}
		}
	}
}

// anchors are the names that GitHub gives a page's headings.
func anchors(t *testing.T, page string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	dropped := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(string(read(t, page)), -1) {
		names[strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(heading[1]), ""), " ", "-")] = true
	}
	return names
}

func TestReadmeNamesEveryPage(t *testing.T) {
	index := string(read(t, "../README.md"))
	for _, page := range glob(t, "*.md") {
		assert.Contains(t, index, "](docs/"+page+")")
	}
}

// GitHub shows a README in a column of 830 pixels, where a line of code has room
// for 97 characters.
func TestReadmeFitsItsColumnOnGitHub(t *testing.T) {
	for _, block := range anyFence.FindAllStringSubmatch(string(read(t, "../README.md")), -1) {
		for line := range strings.Lines(block[2]) {
			line = strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "\t", "        ")
			assert.LessOrEqual(t, utf8.RuneCountInString(line), 95, "README.md scrolls sideways: %s", line)
		}
	}
}

// The way of a request is at most twelve files, none of them twice.
func TestTheWayOfARequestIsTrue(t *testing.T) {
	seen := make(map[string]bool)
	for _, row := range regexp.MustCompile("(?m)^- `([a-z]+/[\\w/.]*)` ").FindAllStringSubmatch(string(read(t, "how-it-works.md")), -1) {
		require.False(t, seen[row[1]], "%s is visited twice", row[1])
		seen[row[1]] = true
		require.FileExists(t, filepath.Join("..", row[1]))
	}
	require.NotEmpty(t, seen)
	require.LessOrEqual(t, len(seen), 12)
}

// comparison.md links to code that needs other libraries. It is compiled and
// tested in benchmarks/migration, whose module has them.
func TestMigratingLinksToCodeThatCompiles(t *testing.T) {
	text := string(read(t, "comparison.md"))
	for _, file := range glob(t, "../benchmarks/migration/*.go") {
		if name := filepath.Base(file); !strings.HasSuffix(name, "_test.go") && name != "migration.go" {
			require.Contains(t, text, "[before and after](../benchmarks/migration/"+name+")")
		}
	}
	require.Empty(t, blocks(text, "go"), "the page shows Go, which nothing compiles: link to it")
}

// The versions of comparison.md are those of benchmarks/go.mod, against which
// their code compiles. It does not require those "in the lists alone".
func TestThePageNamesTheVersionsOfPeers(t *testing.T) {
	mod := string(read(t, "../benchmarks/go.mod"))
	measured, _, _ := strings.Cut(string(read(t, "comparison.md")), "In the lists alone:\n\n")
	versions := regexp.MustCompile(`\bv\d+\.\d+\.\d+\b`).FindAllString(measured, -1)
	require.NotEmpty(t, versions)
	for _, v := range versions {
		require.Contains(t, mod, " "+v+"\n", "comparison.md tells of a version that benchmarks/go.mod does not require")
	}
}

// Every claim of comparison.md about this library names a test, and every test
// that the page names exists.
func TestClaimsOfTheComparisonHaveTests(t *testing.T) {
	text := string(read(t, "comparison.md"))
	named := regexp.MustCompile("`([a-z/]+)\\.((?:Test|Fuzz)\\w+)`")
	_, list, _ := strings.Cut(text, "\n## What this library has\n")
	list, _, _ = strings.Cut(list, "\n## ")
	claims := strings.Split(list, "\n- ")[1:]
	require.NotEmpty(t, claims)
	for _, claim := range claims {
		require.Regexp(t, named, claim, "no test is named")
	}
	for _, name := range named.FindAllStringSubmatch(text, -1) {
		declares := false
		for _, path := range glob(t, filepath.Join("..", name[1], "*_test.go")) {
			declares = declares || strings.Contains(string(read(t, path)), "\nfunc "+name[2]+"(")
		}
		require.True(t, declares, "comparison.md names %s.%s, which does not exist", name[1], name[2])
	}
}
