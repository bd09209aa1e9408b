"""What a version before tool masks answered, recorded, and how it is asked again."""
