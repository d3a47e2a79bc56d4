import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.debezium.data.Envelope;
import io.debezium.embedded.Connect;
import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.connector.mongodb.transforms.outbox.MongoEventRouter;
import io.debezium.transforms.outbox.EventRouter;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.apache.kafka.connect.storage.SimpleHeaderConverter;
import org.apache.kafka.connect.storage.StringConverter;
import org.apache.kafka.connect.transforms.RegexRouter;
import org.apache.kafka.connect.transforms.Transformation;

/**
 * Sends rows through Debezium's outbox event router, or that of MongoDB, and prints what becomes of them: a line a set of options. The rows come from
 * stdin, or, where that has the properties of a connector, out of a database's log.
 */
public class Compare {
    static final ObjectMapper JSON = new ObjectMapper();
    /** Options of Kafka's RegexRouter behind the router. */
    static final String THEN = "route.topic.then.";

    public static void main(String[] args) throws Exception {
        JsonNode in = JSON.readTree(System.in);
        List<SourceRecord> records = in.hasNonNull("connector") ? captured(in.get("connector"), in.get("count").asInt()) : made(in.get("columns"), in.get("rows"));
        StringBuilder out = new StringBuilder();
        for (JsonNode options : in.get("cases")) {
            out.append(run(in.hasNonNull("mongo") ? new MongoEventRouter<>() : new EventRouter<>(), options, records)).append('\n');
        }
        System.out.write(out.toString().getBytes(StandardCharsets.UTF_8));
        System.out.flush();
    }

    /** The rows as a connector would send them. */
    static List<SourceRecord> made(JsonNode columns, JsonNode rows) {
        SchemaBuilder builder = SchemaBuilder.struct().name("server.inventory.outbox.Value");
        for (JsonNode column : columns) {
            SchemaBuilder b = new SchemaBuilder(Schema.Type.valueOf(column.get("type").asText())).optional();
            if (column.hasNonNull("logical")) {
                b.name(column.get("logical").asText());
            }
            builder.field(column.get("name").asText(), b.build());
        }
        Schema schema = builder.build();
        Schema source = SchemaBuilder.struct().name("source").field("connector", Schema.OPTIONAL_STRING_SCHEMA).build();
        Envelope envelope = Envelope.defineSchema().withName("server.inventory.outbox.Envelope").withRecord(schema).withSource(source).build();
        List<SourceRecord> records = new ArrayList<>();
        for (JsonNode row : rows) {
            Struct after = new Struct(schema);
            schema.fields().forEach(f -> {
                JsonNode v = row.get(f.name());
                if (v != null && !v.isNull()) {
                    after.put(f, switch (f.schema().type()) {
                        case INT32 -> (Object) v.asInt();
                        case INT64 -> v.asLong();
                        case BOOLEAN -> v.asBoolean();
                        case BYTES -> ByteBuffer.wrap(Base64.getDecoder().decode(v.asText()));
                        default -> v.asText();
                    });
                }
            });
            Struct value = envelope.create(after, new Struct(source).put("connector", "postgresql"), Instant.ofEpochMilli(1000));
            records.add(new SourceRecord(Map.of(), Map.of(), "server.inventory.outbox", null, null, envelope.schema(), value));
        }
        return records;
    }

    /** What a connector reads out of the log, as soon as there are so many rows. */
    static List<SourceRecord> captured(JsonNode properties, int count) throws Exception {
        Properties engine = new Properties();
        properties.fields().forEachRemaining(e -> engine.setProperty(e.getKey(), e.getValue().asText()));
        List<SourceRecord> records = new ArrayList<>();
        CountDownLatch done = new CountDownLatch(1);
        ExecutorService runs = Executors.newSingleThreadExecutor();
        try (DebeziumEngine<ChangeEvent<SourceRecord, SourceRecord>> running = DebeziumEngine.create(Connect.class).using(engine)
                .using((ok, message, error) -> {
                    if (!ok) {
                        System.err.println(message + ": " + error);
                    }
                    done.countDown();
                })
                .notifying(event -> {
                    if (records.size() < count) {
                        records.add(event.value());
                    }
                    if (records.size() == count) {
                        done.countDown();
                    }
                })
                .build()) {
            runs.execute(running);
            done.await();
        }
        finally {
            runs.shutdown();
        }
        if (records.size() < count) {
            throw new IllegalStateException(records.size() + " rows were read");
        }
        return records;
    }

    static ArrayNode run(Transformation<SourceRecord> router, JsonNode options, List<SourceRecord> records) {
        ArrayNode answers = JSON.createArrayNode();
        Map<String, String> config = new HashMap<>(), formats = new HashMap<>(), then = new HashMap<>();
        options.fields().forEachRemaining(e -> {
            if (e.getKey().startsWith(THEN)) {
                then.put(e.getKey().substring(THEN.length()), e.getValue().asText());
            }
            else {
                (e.getKey().startsWith("format.") ? formats : config).put(e.getKey(), e.getValue().asText());
            }
        });
        RegexRouter<SourceRecord> behind = new RegexRouter<>();
        try {
            router.configure(config);
            if (!then.isEmpty()) {
                behind.configure(then);
            }
        }
        catch (Exception e) {
            records.forEach(record -> answers.addObject().put("error", "configure: " + e));
            return answers;
        }
        for (SourceRecord record : records) {
            ObjectNode answer = answers.addObject();
            try {
                // The router adds headers to the record that it is given.
                SourceRecord own = record.newRecord(record.topic(), record.kafkaPartition(), record.keySchema(), record.key(), record.valueSchema(), record.value(),
                        record.timestamp(), record.headers().duplicate());
                SourceRecord routed = router.apply(own);
                describe(then.isEmpty() ? routed : behind.apply(routed), formats, answer);
            }
            catch (Exception e) {
                answer.removeAll();
                answer.put("error", e.toString());
            }
        }
        return answers;
    }

    static void describe(SourceRecord r, Map<String, String> formats, ObjectNode answer) {
        answer.put("topic", r.topic());
        answer.put("key", text(converter(formats, "key", r.keySchema()).fromConnectData(r.topic(), r.keySchema(), r.key())));
        answer.put("value", text(converter(formats, "value", r.valueSchema()).fromConnectData(r.topic(), r.valueSchema(), r.value())));
        if (r.kafkaPartition() != null) {
            answer.put("partition", r.kafkaPartition());
        }
        answer.put("timestamp", r.timestamp());
        HeaderConverter headers = new SimpleHeaderConverter();
        if ("json".equals(formats.get("format.header"))) {
            JsonConverter json = new JsonConverter();
            json.configure(Map.of("schemas.enable", String.valueOf(formats.containsKey("format.header.schema")), "converter.type", "header"));
            headers = json;
        }
        ArrayNode list = answer.putArray("headers");
        for (Header h : r.headers()) {
            list.addArray().add(h.key()).add(text(headers.fromConnectHeader(r.topic(), h.key(), h.schema(), h.value())));
        }
    }

    /** Without a format texts are texts, and structures JSON. */
    static Converter converter(Map<String, String> formats, String part, Schema schema) {
        String format = formats.get("format." + part);
        boolean json = "json".equals(format);
        if (format == null && schema != null) {
            json = schema.type() == Schema.Type.STRUCT || schema.type() == Schema.Type.ARRAY;
        }
        Converter c = json ? new JsonConverter() : new StringConverter();
        c.configure(Map.of("schemas.enable", String.valueOf(formats.containsKey("format." + part + ".schema"))), part.equals("key"));
        return c;
    }

    static String text(byte[] b) {
        return b == null ? null : Base64.getEncoder().encodeToString(b);
    }
}
