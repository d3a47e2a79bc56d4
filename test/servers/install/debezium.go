package main

import "github.com/tailbox/tailbox/test/servers"

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
