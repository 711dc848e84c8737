"""From run folders and records to tables, figures and pages."""
