"""The course around the library: copies for students and classes, the glossary, the demo, the doctor."""
