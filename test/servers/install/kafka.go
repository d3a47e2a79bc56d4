package main

import "github.com/tailbox/tailbox/test/servers"

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

// installKafka collects Kafka's jars if they are missing.
func installKafka(cache string) error {
	_, err := servers.KafkaLib()
	return installJars(cache, "Kafka "+servers.KafkaVersion, servers.KafkaFolder, kafkaPom, err == nil)
}
