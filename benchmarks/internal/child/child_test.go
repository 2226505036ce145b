package child

import (
	"os/exec"
	"strings"
	"testing"
)

func TestAProcessAnswersUntilItIsStopped(t *testing.T) {
	p, ready, err := start(exec.Command("sh", "-c", `echo ready; while read -r line; do echo "got $line"; done`))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	if ready != "ready" {
		t.Errorf("first line %q, must be ready", ready)
	}
	if err := p.Send("600ms"); err != nil {
		t.Fatal(err)
	}
	if answer, err := p.Receive(); err != nil || answer != "got 600ms" {
		t.Errorf("answer %q, %v, must be: got 600ms", answer, err)
	}
}

func TestAProcessThatEndsIsAnError(t *testing.T) {
	if _, _, err := start(exec.Command("sh", "-c", "exit 1")); err == nil || !strings.Contains(err.Error(), "sh ended") {
		t.Errorf("error %v, must say that sh ended", err)
	}
}
