package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/tailbox/tailbox/test/servers"
)

// kafkaPom makes Maven collect a Kafka broker with all it needs. Logging goes to
// stderr, where a test that fails can show it.
const kafkaPom = `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tailbox.test</groupId><artifactId>kafka</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>` + servers.KafkaVersion + `</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>
  </dependencies>
</project>
`

// installKafka collects Kafka's jars if they are missing, Java and Maven
// included where we may install Debian packages.
func installKafka(cache string) (err error) {
	if err := need("java", "default-jre-headless"); err != nil {
		return err
	}
	if dir, err := servers.KafkaLib(); err == nil {
		fmt.Printf("Kafka %s: %s\n", servers.KafkaVersion, dir)
		return nil
	}
	if err := need("mvn", "maven"); err != nil {
		return err
	}
	fmt.Printf("Kafka %s: fetching\n", servers.KafkaVersion)
	work, err := os.MkdirTemp(cache, "install-")
	if err != nil {
		return fmt.Errorf("make work directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	if err := os.Chmod(work, 0o755); err != nil {
		return fmt.Errorf("open work directory to all: %w", err)
	}
	if err := os.WriteFile(filepath.Join(work, "pom.xml"), []byte(kafkaPom), 0o644); err != nil {
		return fmt.Errorf("write pom: %w", err)
	}
	cmd := exec.Command("mvn", "--quiet", "--batch-mode", "dependency:copy-dependencies", "-DoutputDirectory="+filepath.Join(work, "kafka", "lib"))
	cmd.Dir = work
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("run mvn for Kafka's jars: %w", err)
	}
	final := filepath.Join(cache, "kafka-"+servers.KafkaVersion)
	if err := os.Rename(filepath.Join(work, "kafka"), final); err != nil {
		return fmt.Errorf("install Kafka: %w", err)
	}
	fmt.Printf("Kafka %s: %s\n", servers.KafkaVersion, final)
	return nil
}
