import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.debezium.data.Envelope;
import io.debezium.transforms.outbox.EventRouter;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
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

/** Sends rows through Debezium's outbox event router: cases and rows from stdin, one line for each pair to stdout. */
public class Compare {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        JsonNode in = JSON.readTree(System.in);
        SchemaBuilder builder = SchemaBuilder.struct().name("server.inventory.outbox.Value");
        for (JsonNode column : in.get("columns")) {
            SchemaBuilder b = new SchemaBuilder(Schema.Type.valueOf(column.get("type").asText())).optional();
            if (column.hasNonNull("logical")) {
                b.name(column.get("logical").asText());
            }
            builder.field(column.get("name").asText(), b.build());
        }
        Schema schema = builder.build();
        Schema source = SchemaBuilder.struct().name("source").field("connector", Schema.OPTIONAL_STRING_SCHEMA).build();
        Envelope envelope = Envelope.defineSchema().withName("server.inventory.outbox.Envelope").withRecord(schema).withSource(source).build();
        StringBuilder out = new StringBuilder();
        for (JsonNode options : in.get("cases")) {
            out.append(run(options, in.get("rows"), schema, source, envelope)).append('\n');
        }
        System.out.write(out.toString().getBytes(StandardCharsets.UTF_8));
        System.out.flush();
    }

    static ArrayNode run(JsonNode options, JsonNode rows, Schema schema, Schema source, Envelope envelope) {
        ArrayNode answers = JSON.createArrayNode();
        Map<String, String> config = new HashMap<>(), formats = new HashMap<>();
        options.fields().forEachRemaining(e -> (e.getKey().startsWith("format.") ? formats : config).put(e.getKey(), e.getValue().asText()));
        EventRouter<SourceRecord> router = new EventRouter<>();
        try {
            router.configure(config);
        }
        catch (Exception e) {
            rows.forEach(row -> answers.addObject().put("error", "configure: " + e));
            return answers;
        }
        for (JsonNode row : rows) {
            ObjectNode answer = answers.addObject();
            try {
                Struct after = new Struct(schema);
                schema.fields().forEach(f -> {
                    JsonNode v = row.get(f.name());
                    if (v != null && !v.isNull()) {
                        after.put(f, switch (f.schema().type()) {
                            case INT32 -> (Object) v.asInt();
                            case INT64 -> v.asLong();
                            case BOOLEAN -> v.asBoolean();
                            default -> v.asText();
                        });
                    }
                });
                Struct value = envelope.create(after, new Struct(source).put("connector", "postgresql"), Instant.ofEpochMilli(1000));
                SourceRecord record = new SourceRecord(Map.of(), Map.of(), "server.inventory.outbox", null, null, envelope.schema(), value);
                describe(router.apply(record), formats, answer);
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
