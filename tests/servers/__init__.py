"""Real object-store servers for the integration tests, run without containers.

``python -m tests.servers fetch`` installs them into the user's cache; ``s3.S3Server`` and
``azure.AzuriteServer`` start them on free loopback ports and stop them again; ``proxy`` counts and
breaks the requests to them. Nothing is imported here, so that fetching needs only Python itself.
"""
