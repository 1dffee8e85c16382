"""Tables, statistics and the HTML page of the report: from tidy tables to what is shown."""
