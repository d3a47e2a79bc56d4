package servers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// KafkaVersion is the release of Kafka that tests run against.
const KafkaVersion = "4.1.0"

// DebeziumVersion is the release of Debezium that the router is compared with, and that tests take over from.
const DebeziumVersion = "3.6.1.Final"

// Folders of the cache that hold the jars.
const (
	KafkaFolder    = "kafka-" + KafkaVersion
	DebeziumFolder = "debezium-connectors-" + DebeziumVersion
	// DebeziumServerFolder holds Debezium Server, which only the comparison runs.
	DebeziumServerFolder = "debezium-server-" + DebeziumVersion
)

// KafkaLib returns the directory of Kafka's jars, or an error that names what
// installs them.
func KafkaLib() (string, error) { return jars("Kafka "+KafkaVersion, KafkaFolder) }

// DebeziumLib does the same for Debezium's jars, with those of Kafka Connect.
func DebeziumLib() (string, error) { return jars("Debezium "+DebeziumVersion, DebeziumFolder) }

// DebeziumServer returns the home of Debezium Server, with the program java/bin/java, or an error that names what installs it.
func DebeziumServer() (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	home := filepath.Join(cache, DebeziumServerFolder)
	if _, err := os.Stat(filepath.Join(home, "java", "bin", "java")); err != nil {
		return "", fmt.Errorf("find Debezium Server %s: %w; run: make rivals", DebeziumVersion, err)
	}
	return home, nil
}

// Debezium is DebeziumLib for a test.
func Debezium(tb testing.TB) string {
	tb.Helper()
	lib, err := DebeziumLib()
	if err != nil {
		unavailable(tb, err)
	}
	return lib
}

func jars(title, folder string) (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	lib := filepath.Join(cache, folder, "lib")
	if _, err := os.Stat(lib); err != nil {
		return "", fmt.Errorf("find %s: %w; run: make servers", title, err)
	}
	if _, err := exec.LookPath("java"); err != nil {
		return "", fmt.Errorf("find Java for %s: %w; run: make servers", title, err)
	}
	return lib, nil
}
