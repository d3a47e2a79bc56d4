import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.Header;
import io.debezium.engine.format.Json;
import io.debezium.engine.format.KeyValueHeaderChangeEventFormat;
import java.io.FileReader;
import java.io.Reader;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * Runs Debezium's Postgres connector and outbox event router by a properties file of Debezium Server's, into Kafka, until it
 * is ended. Debezium Server itself is a distribution that Maven's repository does not hold; connector, router, engine and
 * converters are its own, and only the sink, which hands records to a producer, is made here.
 */
public class Debezium {
    public static void main(String[] args) throws Exception {
        Properties file = new Properties(), engine = new Properties(), producer = new Properties();
        try (Reader in = new FileReader(args[0], StandardCharsets.UTF_8)) {
            file.load(in);
        }
        engine.setProperty("name", "kafka");
        for (String key : file.stringPropertyNames()) {
            String value = file.getProperty(key).replace("$$", "$");
            if (key.startsWith("debezium.source.")) {
                engine.setProperty(key.substring("debezium.source.".length()), value);
            }
            else if (key.startsWith("debezium.transforms")) {
                engine.setProperty(key.substring("debezium.".length()), value);
            }
            else if (key.startsWith("debezium.sink.kafka.producer.")) {
                producer.setProperty(key.substring("debezium.sink.kafka.producer.".length()), value);
            }
        }
        try (KafkaProducer<String, String> out = new KafkaProducer<>(producer);
                DebeziumEngine<ChangeEvent<String, String>> running = DebeziumEngine
                        .create(KeyValueHeaderChangeEventFormat.of(Json.class, Json.class, Json.class))
                        .using(engine)
                        .using((ok, message, error) -> {
                            if (!ok) {
                                System.err.println(message + ": " + error);
                            }
                        })
                        .notifying((events, committer) -> {
                            send(events, out);
                            for (ChangeEvent<String, String> e : events) {
                                committer.markProcessed(e);
                            }
                            committer.markBatchFinished();
                        })
                        .build()) {
            Runtime.getRuntime().addShutdownHook(new Thread(() -> {
                try {
                    running.close();
                }
                catch (Exception e) {
                    System.err.println("stop: " + e);
                }
            }));
            running.run();
        }
    }

    static void send(List<ChangeEvent<String, String>> events, KafkaProducer<String, String> out) {
        for (ChangeEvent<String, String> e : events) {
            ProducerRecord<String, String> record = new ProducerRecord<>(e.destination(), e.partition(), e.key(), e.value());
            for (Header<?> h : e.headers()) {
                record.headers().add(h.getKey(), h.getValue().toString().getBytes(StandardCharsets.UTF_8));
            }
            out.send(record);
        }
        out.flush();
    }
}
