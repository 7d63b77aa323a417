"""Java, and the jars that Kafka and Spark run on."""
