"""The routing-choices Lab: which patches a routing keeps and which it loses, beside other routings at equal compute."""
