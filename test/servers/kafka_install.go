package servers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// KafkaVersion is the release of Kafka that tests run against.
const KafkaVersion = "4.1.0"

// KafkaLib returns the directory of Kafka's jars, or an error that names what
// installs them.
func KafkaLib() (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	lib := filepath.Join(cache, "kafka-"+KafkaVersion, "lib")
	if _, err := os.Stat(lib); err != nil {
		return "", fmt.Errorf("find Kafka %s: %w; run: make servers", KafkaVersion, err)
	}
	if _, err := exec.LookPath("java"); err != nil {
		return "", fmt.Errorf("find Java for Kafka: %w; run: make servers", err)
	}
	return lib, nil
}
