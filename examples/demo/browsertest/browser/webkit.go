package browser

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// miniBrowser is the path of WebKitGTK's browser, which no PATH has.
func miniBrowser() string {
	for _, pattern := range []string{"/usr/lib/*/webkit2gtk-4.*/MiniBrowser", "/usr/libexec/webkit2gtk-4.*/MiniBrowser"} {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			return found[len(found)-1]
		}
	}
	return ""
}

// fixedByGTK is what WebKitGTK asks of its desktop when it starts.
func fixedByGTK(l Look) Look { return Look{Dark: l.Dark, ReducedMotion: l.ReducedMotion} }

func lackedByGTK(l Look) (what string) {
	if l.ForcedColors {
		return "forced colours"
	}
	return ""
}

// display starts a screen that nobody sees, for WebKitGTK, which has no headless mode. It ends with the tests.
var display = sync.OnceValues(func() (name string, err error) {
	number, tell, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer number.Close()
	server := exec.Command("Xvfb", "-displayfd", "3", "-screen", "0", "2400x2400x24", "-nolisten", "tcp")
	server.ExtraFiles = []*os.File{tell}
	endWithTests(server)
	err = server.Start()
	tell.Close()
	if err != nil {
		return "", err
	}
	line, err := bufio.NewReader(number).ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("the display server Xvfb ended: %w", err)
	}
	return ":" + strings.TrimSpace(line), nil
})

// narrow lets a window be as narrow as a phone, whatever its toolbar needs.
const narrow = "* { min-width: 0; min-height: 0; padding: 0; margin: 0; border-width: 0; font-size: 1px; -gtk-icon-transform: scale(0); }\n"

func startWebKit(l Look) (session, error) {
	screen, err := display()
	if err != nil {
		return session{}, err
	}
	desktop, err := os.MkdirTemp("", "browsertest-webkit")
	if err != nil {
		return session{}, err
	}
	args, animations := []string{"--automation"}, 1
	if l.Dark {
		args = append(args, "--dark-mode")
	}
	if l.ReducedMotion {
		animations = 0
	}
	gtk := filepath.Join(desktop, "gtk-3.0")
	if err := os.Mkdir(gtk, 0o700); err != nil {
		return session{}, err
	}
	for name, text := range map[string]string{"settings.ini": fmt.Sprintf("[Settings]\ngtk-enable-animations=%d\n", animations), "gtk.css": narrow} {
		if err := os.WriteFile(filepath.Join(gtk, name), []byte(text), 0o600); err != nil {
			return session{}, err
		}
	}
	program := exec.Command("WebKitWebDriver")
	program.Env = append(os.Environ(), "DISPLAY="+screen, "XDG_CONFIG_HOME="+desktop, "GDK_BACKEND=x11", "NO_AT_BRIDGE=1")
	d, err := startDriver(program, map[string]any{
		"webkitgtk:browserOptions": map[string]any{"binary": miniBrowser(), "args": args},
	})
	if err != nil {
		return session{}, err
	}
	return session{d, func(l Look) error { return resize(d, l) }, desktop}, nil
}

// resize makes the page, without the window's toolbar, as large as it should be. The page hears of its size later than
// the window gets it: it has it when two looks in a row say so.
func resize(d *driver, l Look) error {
	width, height := l.size()
	for began, right := time.Now(), 0; right < 2; time.Sleep(50 * time.Millisecond) {
		var now struct{ Width, Height, Outer int }
		if err := d.call("ExecuteAsyncScript", map[string]any{
			"script": `arguments[0]({width: innerWidth, height: innerHeight, outer: outerHeight})`, "args": []any{},
		}, &now); err != nil {
			return err
		}
		if now.Width == width && now.Height == height {
			right++
			continue
		}
		if time.Since(began) > patience {
			return fmt.Errorf("the page is %d by %d pixels large, not %d by %d", now.Width, now.Height, width, height)
		}
		right = 0
		if err := d.call("SetWindowRect", map[string]int{"width": width, "height": height + now.Outer - now.Height}, nil); err != nil {
			return err
		}
	}
	return nil
}
