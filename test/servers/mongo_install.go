package servers

import (
	"fmt"
	"os"
	"path/filepath"
)

// MongoVersion is the release of MongoDB that tests run against. No registry
// that tests may use carries mongos, so there is no sharded cluster here.
const MongoVersion = "6.0.5"

// MongoBin returns the path of mongod, or an error that names what installs it.
func MongoBin() (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	bin := filepath.Join(cache, "mongodb-"+MongoVersion, "bin", "mongod")
	if _, err := os.Stat(bin); err != nil {
		return "", fmt.Errorf("find MongoDB %s: %w; run: make servers", MongoVersion, err)
	}
	return bin, nil
}
