package servers

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// AxeVersion is the version of axe-core, with which tests look for what keeps people from using a page.
const AxeVersion = "4.12.1"

// ChromiumBin returns Chromium's program, or an error that names what installs it.
func ChromiumBin() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if bin, err := exec.LookPath(name); err == nil {
			return bin, nil
		}
	}
	return "", errors.New("find Chromium: it is not installed; as root run: apt-get install chromium")
}

// AxeScript returns the source of axe-core, which a test runs in a page.
func AxeScript() (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(filepath.Join(cache, "axe-core-"+AxeVersion, "axe.min.js"))
	if err != nil {
		return "", fmt.Errorf("read axe-core: %w: run make servers", err)
	}
	return string(text), nil
}
