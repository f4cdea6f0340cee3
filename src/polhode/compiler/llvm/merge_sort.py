"""Stable merge sort by integer keys, as a function of LLVM's intermediate representation."""

MERGE_SORT = """
define internal ptr @merged(ptr %keys, ptr %order, ptr %spare, i64 %n) {
entry:
  br label %number
number:
  %i = phi i64 [ 0, %entry ], [ %i1, %numbered ]
  %left = icmp slt i64 %i, %n
  br i1 %left, label %numbered, label %passes
numbered:
  %cell = getelementptr i64, ptr %order, i64 %i
  store i64 %i, ptr %cell, align 8
  %i1 = add i64 %i, 1
  br label %number
passes:
  %width = phi i64 [ 1, %number ], [ %twice, %passed ]
  %from = phi ptr [ %order, %number ], [ %to, %passed ]
  %to = phi ptr [ %spare, %number ], [ %from, %passed ]
  %twice = shl i64 %width, 1
  %more = icmp slt i64 %width, %n
  br i1 %more, label %runs, label %done
runs:
  %begin = phi i64 [ 0, %passes ], [ %end, %merged ]
  %any = icmp slt i64 %begin, %n
  br i1 %any, label %run, label %passed
run:
  %half = add i64 %begin, %width
  %middle = call i64 @llvm.smin.i64(i64 %half, i64 %n)
  %whole = add i64 %begin, %twice
  %end = call i64 @llvm.smin.i64(i64 %whole, i64 %n)
  br label %next
next:
  %a = phi i64 [ %begin, %run ], [ %a2, %took ]
  %b = phi i64 [ %middle, %run ], [ %b2, %took ]
  %out = phi i64 [ %begin, %run ], [ %out1, %took ]
  %unfinished = icmp slt i64 %out, %end
  br i1 %unfinished, label %compare, label %merged
compare:
  %hasa = icmp slt i64 %a, %middle
  %hasb = icmp slt i64 %b, %end
  %pa = getelementptr i64, ptr %from, i64 %a
  %pb = getelementptr i64, ptr %from, i64 %b
  br i1 %hasa, label %first, label %takeb
first:
  %na = load i64, ptr %pa, align 8
  br i1 %hasb, label %both, label %takea
both:
  %nb = load i64, ptr %pb, align 8
  %ka = getelementptr i64, ptr %keys, i64 %na
  %kb = getelementptr i64, ptr %keys, i64 %nb
  %va = load i64, ptr %ka, align 8
  %vb = load i64, ptr %kb, align 8
  %second = icmp slt i64 %vb, %va
  br i1 %second, label %takeb, label %takea
takea:
  br label %took
takeb:
  br label %took
took:
  %source = phi ptr [ %pa, %takea ], [ %pb, %takeb ]
  %fora = phi i64 [ 1, %takea ], [ 0, %takeb ]
  %forb = phi i64 [ 0, %takea ], [ 1, %takeb ]
  %value = load i64, ptr %source, align 8
  %place = getelementptr i64, ptr %to, i64 %out
  store i64 %value, ptr %place, align 8
  %a2 = add i64 %a, %fora
  %b2 = add i64 %b, %forb
  %out1 = add i64 %out, 1
  br label %next
merged:
  br label %runs
passed:
  br label %passes
done:
  ret ptr %from
}
"""
"""Bottom-up merge sort of the indices 0 … n - 1 by their keys; `order` and `spare` have n slots each."""
