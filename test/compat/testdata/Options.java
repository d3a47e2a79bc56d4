import io.debezium.config.Field;
import io.debezium.connector.postgresql.PostgresConnector;
import java.io.File;
import java.lang.reflect.Modifier;
import java.util.TreeSet;
import java.util.jar.JarFile;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.connect.json.JsonConverterConfig;
import org.apache.kafka.connect.runtime.SourceConnectorConfig;
import org.apache.kafka.connect.storage.StringConverterConfig;

/** Prints the names of all options that Debezium's jars define, of Kafka Connect's for a source, of a Kafka producer and of converters, one a line. */
public class Options {
    public static void main(String[] args) throws Exception {
        var names = new TreeSet<String>(new PostgresConnector().config().names());
        names.addAll(SourceConnectorConfig.configDef().names());
        for (String path : System.getProperty("java.class.path").split(File.pathSeparator)) {
            var file = new File(path);
            if (!file.getName().startsWith("debezium-") || !file.getName().endsWith(".jar")) {
                continue;
            }
            try (var jar = new JarFile(file)) {
                jar.stream().map(e -> e.getName()).filter(n -> n.endsWith(".class") && !n.contains("/sink/")).forEach(n -> add(names, n.replace('/', '.').substring(0, n.length() - 6)));
            }
        }
        ProducerConfig.configNames().forEach(n -> names.add("producer." + n));
        JsonConverterConfig.configDef().names().forEach(n -> names.add("converter." + n));
        StringConverterConfig.configDef().names().forEach(n -> names.add("converter." + n));
        names.forEach(System.out::println);
    }

    private static void add(TreeSet<String> names, String type) {
        try {
            for (var field : Class.forName(type).getDeclaredFields()) {
                if (Modifier.isStatic(field.getModifiers()) && field.getType() == Field.class) {
                    field.setAccessible(true);
                    if (field.get(null) instanceof Field f) {
                        names.add(f.name());
                    }
                }
            }
        } catch (Throwable e) {
            // A class of which a part is not here defines no option of a connector that runs here.
        }
    }
}
