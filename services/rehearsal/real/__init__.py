"""A real cluster on which the chart is installed, as the stage of a story."""
