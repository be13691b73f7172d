#!/usr/bin/env bash
# transformers: Trainer leaves the mean over accumulated mini-batches to the model, and most models for classification do not take it, so gradients are added up.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q transformers==5.24.0 accelerate==1.15.0 torch==2.13.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import inspect
import sys

import torch
import transformers
from torch.utils.data import Dataset
from transformers import (BertConfig, BertForMaskedLM, BertForSequenceClassification, BertForTokenClassification, LlamaConfig,
                          LlamaForCausalLM, LlamaForSequenceClassification, PrinterCallback, Trainer, TrainingArguments)

ROWS, LENGTH, PER_UPDATE = 8, 6, 4
SIZES = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


class Rows(Dataset):
    def __init__(self, labels):
        draw = torch.Generator().manual_seed(0)
        self.tokens, self.labels = torch.randint(1, 50, (ROWS, LENGTH), generator=draw), labels

    def __len__(self):
        return ROWS

    def __getitem__(self, at):
        return {"input_ids": self.tokens[at], "attention_mask": torch.ones_like(self.tokens[at]), "labels": self.labels[at]}


def one_update(kind, config, labels, mini_batches):
    """(length of the one step of plain SGD on all rows, the loss in the log)"""
    torch.manual_seed(0)
    model = kind(config)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    options = TrainingArguments(output_dir="out", per_device_train_batch_size=ROWS // mini_batches,
                                gradient_accumulation_steps=mini_batches, max_steps=1, learning_rate=0.1, optim="sgd",
                                lr_scheduler_type="constant", max_grad_norm=0.0, logging_steps=1, save_strategy="no",
                                report_to=[], use_cpu=True, disable_tqdm=True)
    trainer = Trainer(model, options, train_dataset=Rows(labels))
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    length = sum((p - q).square().sum() for p, q in zip(model.parameters(), before)).sqrt().item()
    return length, trainer.state.log_history[0]["loss"]


torch.manual_seed(1)
token, tokens = torch.randint(0, 3, (ROWS,)), torch.randint(0, 3, (ROWS, LENGTH))
CASES = {
    "LlamaForCausalLM": (LlamaForCausalLM, LlamaConfig(**SIZES), tokens),
    "BertForMaskedLM": (BertForMaskedLM, BertConfig(**SIZES, **NO_DROPOUT), tokens),
    "BertForSequenceClassification": (BertForSequenceClassification, BertConfig(**SIZES, **NO_DROPOUT, num_labels=3), token),
    "BertForTokenClassification": (BertForTokenClassification, BertConfig(**SIZES, **NO_DROPOUT, num_labels=3), tokens),
    "LlamaForSequenceClassification": (LlamaForSequenceClassification, LlamaConfig(**SIZES, num_labels=3, pad_token_id=0), token),
}
print("transformers", transformers.__version__, "torch", torch.__version__)
print(f"guess: one step on {ROWS} rows is the same in one mini-batch and in {PER_UPDATE}")
times, losses = {}, {}
for name, case in CASES.items():
    whole, parts = one_update(*case, 1), one_update(*case, PER_UPDATE)
    times[name], losses[name] = parts[0] / whole[0], parts[1] / whole[1]
    print(f"{name}: in {PER_UPDATE} mini-batches the step is {times[name]:.3f} times as long; loss in the log {whole[1]:.3f} and {parts[1]:.3f}")
takes = {name: any(each.kind is each.VAR_KEYWORD for each in inspect.signature(kind.forward).parameters.values()) for name, (kind, _, _) in CASES.items()}
expected = {name: 1 if name == "LlamaForCausalLM" else PER_UPDATE for name in CASES}
as_found = all(takes.values()) and all(abs(of[name] - expected[name]) < 1e-3 for of in (times, losses) for name in CASES)
print("as found: the sum of the mini-batches' gradients where a language model gets their mean" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py 2>log || { tail -20 log; exit 1; }
