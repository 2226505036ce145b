package browser

import "os/exec"

const chromiums = "chromium chromium-browser google-chrome"

func startChromium(Look) (session, error) {
	d, err := startDriver(exec.Command("chromedriver"), map[string]any{
		"goog:chromeOptions": map[string]any{
			"binary": onPath(chromiums),
			"args": []string{
				"--headless=new", "--hide-scrollbars", "--disable-gpu",
				"--remote-debugging-pipe", // it ends with its driver
				"--no-sandbox",            // containers rarely allow one, and all pages are ours
				"--disable-quic", "--disable-component-update", "--disable-background-networking", "--no-first-run", "--disable-sync",
			},
		},
	})
	if err != nil {
		return session{}, err
	}
	show := func(l Look) error {
		width, height := l.size()
		if err := cdp(d, "Emulation.setDeviceMetricsOverride", map[string]any{
			"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600,
		}); err != nil {
			return err
		}
		scheme, motion, forced := l.media()
		return cdp(d, "Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{
			{"name": "prefers-color-scheme", "value": scheme},
			{"name": "prefers-reduced-motion", "value": motion},
			{"name": "forced-colors", "value": forced},
		}})
	}
	return session{wire: d, show: show}, nil
}

// cdp is a command of Chrome's DevTools, for what the standard has none.
func cdp(w wire, command string, params any) error {
	return w.call("ExecuteCDP", map[string]any{"cmd": command, "params": params}, nil)
}
