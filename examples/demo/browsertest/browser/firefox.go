package browser

import (
	"os"
	"os/exec"
	"path/filepath"
)

const firefoxes = "firefox-esr firefox"

// preferences keep Firefox from doing anything of its own accord.
const preferences = `user_pref("marionette.port", 0);
user_pref("remote.prefs.recommended", true);
user_pref("app.update.disabledForTesting", true);
user_pref("browser.aboutwelcome.enabled", false);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("network.captive-portal-service.enabled", false);
user_pref("network.connectivity-service.enabled", false);
user_pref("services.settings.server", "data:,#remote-settings-dummy/v1");
user_pref("toolkit.telemetry.server", "");
`

func startFirefox(Look) (session, error) {
	profile, err := os.MkdirTemp("", "browsertest-firefox")
	if err != nil {
		return session{}, err
	}
	if err := os.WriteFile(filepath.Join(profile, "user.js"), []byte(preferences), 0o600); err != nil {
		return session{}, err
	}
	program := exec.Command(onPath(firefoxes), "--marionette", "--headless", "--no-remote", "--remote-allow-system-access", "--profile", profile)
	m, err := startMarionette(program, profile)
	if err != nil {
		return session{}, err
	}
	show := func(l Look) error {
		width, height := l.size()
		// The window is larger than the page, which gets its size inside: no window is as narrow as a phone.
		if err := m.call("SetWindowRect", map[string]int{"width": max(width, 600) + 100, "height": height + 200}, nil); err != nil {
			return err
		}
		// Preferences rather than the tab's own overrides, which a tab loses when it goes elsewhere.
		return m.chrome(`
			const [width, height, dark, reduced, forced] = arguments, page = gBrowser.selectedBrowser;
			for (const [name, size] of [["width", width], ["height", height]])
				for (const bound of ["", "min-", "max-"]) page.style.setProperty(bound + name, size + "px");
			Services.prefs.setIntPref("layout.css.prefers-color-scheme.content-override", dark ? 0 : 1);
			Services.prefs.setIntPref("ui.prefersReducedMotion", reduced ? 1 : 0);
			Services.prefs.setIntPref("browser.display.document_color_use", forced ? 2 : 1);
			Services.prefs.setStringPref("browser.display.background_color", dark ? "#000000" : "#ffffff"); // of forced colours
			Services.prefs.setStringPref("browser.display.foreground_color", dark ? "#ffffff" : "#000000");`,
			width, height, l.Dark, l.ReducedMotion, l.ForcedColors)
	}
	return session{m, show, profile}, nil
}

// chrome runs a script in the browser itself rather than in its page, for what the standard has no command for.
func (m *marionette) chrome(script string, args ...any) error {
	if err := m.call(chromeCommand+"SetContext", map[string]string{"value": "chrome"}, nil); err != nil {
		return err
	}
	err := m.call("ExecuteScript", map[string]any{"script": script, "args": args}, nil)
	if back := m.call(chromeCommand+"SetContext", map[string]string{"value": "content"}, nil); err == nil {
		err = back
	}
	return err
}
