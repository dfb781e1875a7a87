"""Verifies a wake with PyPI's standardwebhooks: takes {"secret", "headers", "body"} as JSON, prints what it holds."""

import json
import sys

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

wake = json.loads(sys.argv[1])
webhook = Webhook(wake["secret"])
verified = webhook.verify(wake["body"], wake["headers"])
try:
    webhook.verify(wake["body"] + " ", wake["headers"])
    forged = True
except WebhookVerificationError:
    forged = False
print(json.dumps({"verified": verified, "forgery_passes": forged}))
