import io.trino.plugin.iceberg.IcebergPlugin;
import io.trino.testing.StandaloneQueryRunner;
import io.trino.testing.TestingSession;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Arrays;
import java.util.Map;
import java.util.TreeMap;

/**
 * Trino with its own Iceberg connector, in one process, until standard input ends.
 *
 * <p>Usage: TrinoServer FILE CATALOG/PROPERTY=VALUE…; its address is in the file once it answers.
 */
public final class TrinoServer {
    public static void main(String[] arguments) throws Exception {
        Map<String, Map<String, String>> catalogs = new TreeMap<>();
        for (String argument : Arrays.asList(arguments).subList(1, arguments.length)) {
            String[] setting = argument.split("=", 2);
            String[] name = setting[0].split("/", 2);
            catalogs.computeIfAbsent(name[0], n -> new TreeMap<>()).put(name[1], setting[1]);
        }
        var runner = new StandaloneQueryRunner(TestingSession.testSessionBuilder().build());
        runner.installPlugin(new IcebergPlugin());
        catalogs.forEach((name, properties) -> runner.createCatalog(name, "iceberg", properties));
        Path file = Path.of(arguments[0]);
        Path draft = file.resolveSibling(file.getFileName() + ".draft");
        Files.writeString(draft, runner.getCoordinator().getBaseUrl().toString());
        Files.move(draft, file, StandardCopyOption.ATOMIC_MOVE);
        while (System.in.read() >= 0) {}
        System.exit(0);
    }
}
