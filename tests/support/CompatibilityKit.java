// Iceberg's own tests of catalogs, run against a REST catalog by its address.
//
// Usage: java -cp … CompatibilityKit.java ADDRESS (tables|views)
//
// Prints a line for each test that did not pass: its name, a tab, and the failure in one line; then
// the number of those that passed.

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.CatalogTests;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.rest.RESTCatalog;
import org.apache.iceberg.view.ViewCatalogTests;
import org.junit.jupiter.api.BeforeEach;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.discovery.DiscoverySelectors;
import org.junit.platform.launcher.LauncherDiscoveryRequest;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;

public class CompatibilityKit {
  private static String address;

  public static void main(String[] arguments) {
    address = arguments[0];
    Class<?> tests = arguments[1].equals("views") ? Views.class : Tables.class;
    LauncherDiscoveryRequest request =
        LauncherDiscoveryRequestBuilder.request()
            .selectors(DiscoverySelectors.selectClass(tests))
            .build();
    int[] passed = {0};
    TestExecutionListener listener =
        new TestExecutionListener() {
          @Override
          public void executionFinished(TestIdentifier test, TestExecutionResult result) {
            switch (result.getStatus()) {
              case SUCCESSFUL -> passed[0] += test.isTest() ? 1 : 0;
              case FAILED -> {
                String why = String.valueOf(result.getThrowable().orElse(null));
                String name = test.getDisplayName().replaceAll("\\(.*", "");
                System.out.println(name + "\t" + why.replaceAll("\\s+", " "));
              }
              default -> {} // an assumption of the test does not hold
            }
          }
        };
    LauncherFactory.create().execute(request, listener);
    System.out.println("passed\t" + passed[0]);
    System.exit(0);
  }

  static RESTCatalog client(Map<String, String> more) {
    Map<String, String> properties = new HashMap<>();
    properties.put("uri", address);
    properties.put("rest.client.max-retries", "1");
    for (String kind : List.of("table", "view")) {
      String prefix = kind.equals("table") ? "default-" : "";
      String own = kind.equals("table") ? "override-" : "";
      properties.put(kind + "-default." + prefix + "key1", "catalog-default-key1");
      properties.put(kind + "-default." + prefix + "key2", "catalog-default-key2");
      properties.put(kind + "-default." + own + "key3", "catalog-default-key3");
      properties.put(kind + "-override." + own + "key3", "catalog-override-key3");
      properties.put(kind + "-override." + own + "key4", "catalog-override-key4");
    }
    properties.putAll(more);
    RESTCatalog catalog = new RESTCatalog();
    catalog.setConf(new Configuration());
    catalog.initialize("kit", properties);
    return catalog;
  }

  /** Removes what an earlier test has left. */
  static void purge(RESTCatalog catalog, Namespace parent, boolean hasViews) {
    for (Namespace namespace : catalog.listNamespaces(parent)) {
      purge(catalog, namespace, hasViews);
      catalog.listTables(namespace).forEach(table -> catalog.dropTable(table, false));
      if (hasViews) {
        catalog.listViews(namespace).forEach(catalog::dropView);
      }
      catalog.dropNamespace(namespace);
    }
  }

  public static class Tables extends CatalogTests<RESTCatalog> {
    private final RESTCatalog catalog = client(Map.of());

    @BeforeEach
    void clean() {
      purge(catalog, Namespace.empty(), false);
    }

    @Override
    protected RESTCatalog catalog() {
      return catalog;
    }

    @Override
    protected RESTCatalog initCatalog(String name, Map<String, String> more) {
      return client(more);
    }

    @Override
    protected boolean requiresNamespaceCreate() {
      return true;
    }

    @Override
    protected boolean supportsServerSideRetry() {
      return true;
    }

    @Override
    protected boolean supportsNamesWithDot() {
      return false;
    }

    @Override
    protected boolean supportsNamesWithSlashes() {
      return false;
    }
  }

  public static class Views extends ViewCatalogTests<RESTCatalog> {
    private final RESTCatalog catalog = client(Map.of());

    @BeforeEach
    void clean() {
      purge(catalog, Namespace.empty(), true);
    }

    @Override
    protected RESTCatalog catalog() {
      return catalog;
    }

    @Override
    protected Catalog tableCatalog() {
      return catalog;
    }

    @Override
    protected boolean requiresNamespaceCreate() {
      return true;
    }

    @Override
    protected boolean supportsServerSideRetry() {
      return true;
    }
  }
}
