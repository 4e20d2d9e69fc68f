"""The bus as the services use it: state per node, logs, streams. The only importer of nats."""
