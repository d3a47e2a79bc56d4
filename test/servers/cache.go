package servers

import (
	"fmt"
	"os"
	"path/filepath"
)

// unprivileged is the user and group that servers run as when we are root,
// because initdb and postgres refuse root.
const unprivileged = 65534

// CacheDir is where installed servers live: $TAILBOX_CACHE, else tailbox in the
// user's cache directory. As root it is /var/cache/tailbox, since servers then
// run as another user, who may not enter root's home.
func CacheDir() (string, error) {
	if dir := os.Getenv("TAILBOX_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	if os.Geteuid() == 0 {
		return "/var/cache/tailbox", nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find cache directory: %w; set TAILBOX_CACHE", err)
	}
	return filepath.Join(dir, "tailbox"), nil
}

// dataDir names the environment variable that says where servers keep their
// data; without it that is the directory for temporary files.
const dataDir = "TAILBOX_TEST_SERVERS_DIR"

// tempDir makes a server's own directory, owned by the user the server will run
// as. It is short, because a Unix socket's path may not exceed 107 bytes.
func tempDir(prefix string) (string, error) {
	base := os.Getenv(dataDir)
	if base == "" {
		base = os.TempDir()
	}
	if len(base) > 40 {
		base = "/tmp"
	}
	dir, err := os.MkdirTemp(base, prefix)
	if err != nil {
		return "", fmt.Errorf("make server directory: %w; set %s to a directory that can be written", err, dataDir)
	}
	if err := own(dir); err != nil {
		return "", err
	}
	return dir, nil
}

// own gives path to the user that servers run as; without root it already is.
func own(path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	if err := os.Lchown(path, unprivileged, unprivileged); err != nil {
		return fmt.Errorf("give %s to the server's user: %w", path, err)
	}
	return nil
}

// tail returns the last n bytes of a file, for error messages.
func tail(path string, n int64) string {
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > n {
		if _, err := f.Seek(-n, 2); err != nil {
			return err.Error()
		}
	}
	buf := make([]byte, n)
	read, err := f.Read(buf)
	if err != nil {
		return err.Error()
	}
	return string(buf[:read])
}
