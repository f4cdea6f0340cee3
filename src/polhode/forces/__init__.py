"""Forces: loads on bodies."""
