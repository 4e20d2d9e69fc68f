"""Spans: made when a step ends, kept on the bus for an hour, sent by OTLP where asked for."""
