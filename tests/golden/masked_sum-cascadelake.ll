; masked_sum for cascadelake
define void @masked_sum_p0(ptr %bufs, ptr %vars, ptr %scratch, i64 %lo, i64 %hi) #0 {
  %at.0 = getelementptr ptr, ptr %bufs, i64 0
  %x.p = load ptr, ptr %at.0, align 8
  %at.2 = getelementptr ptr, ptr %bufs, i64 2
  %work = load ptr, ptr %at.2, align 8
  %var.0 = getelementptr i64, ptr %vars, i64 0
  %n.s = load i64, ptr %var.0, align 8
  call void @masked_sum_p0.items(ptr %x.p, ptr %work, i64 %n.s, i64 %lo, i64 %hi)
  ret void
}
define internal void @masked_sum_p0.items(ptr noalias readonly %x.p, ptr noalias %work, i64 %n.s, i64 %lo, i64 %hi) alignstack(64) #0 {
entry:
  %some = icmp slt i64 %lo, %hi
  br i1 %some, label %items, label %done
items:
  %item = phi i64 [ %lo, %entry ], [ %item.next, %next ]
  %v1 = mul i64 %item, 8
  %v2 = insertelement <8 x i64> poison, i64 %v1, i32 0
  %v3 = shufflevector <8 x i64> %v2, <8 x i64> poison, <8 x i32> zeroinitializer
  %v4 = add <8 x i64> %v3, <i64 0, i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7>
  %v5 = insertelement <8 x i64> poison, i64 %n.s, i32 0
  %v6 = shufflevector <8 x i64> %v5, <8 x i64> poison, <8 x i32> zeroinitializer
  %v7 = icmp slt <8 x i64> %v4, %v6
  %v8 = getelementptr float, ptr %x.p, i64 %v1
  %v9 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %v8, i32 4, <8 x i1> %v7, <8 x float> zeroinitializer)
  %v10 = extractelement <8 x float> %v9, i32 0
  %v11 = extractelement <8 x float> %v9, i32 1
  %v12 = fadd float %v10, %v11
  %v13 = extractelement <8 x float> %v9, i32 2
  %v14 = fadd float %v12, %v13
  %v15 = extractelement <8 x float> %v9, i32 3
  %v16 = fadd float %v14, %v15
  %v17 = extractelement <8 x float> %v9, i32 4
  %v18 = fadd float %v16, %v17
  %v19 = extractelement <8 x float> %v9, i32 5
  %v20 = fadd float %v18, %v19
  %v21 = extractelement <8 x float> %v9, i32 6
  %v22 = fadd float %v20, %v21
  %v23 = extractelement <8 x float> %v9, i32 7
  %v24 = fadd float %v22, %v23
  %v25 = getelementptr float, ptr %work, i64 %item
  store float %v24, ptr %v25, align 4
  br label %next
next:
  %item.next = add nuw nsw i64 %item, 1
  %more = icmp slt i64 %item.next, %hi
  br i1 %more, label %items, label %done
done:
  ret void
}
define void @masked_sum_p1(ptr %bufs, ptr %vars, ptr %scratch, i64 %lo, i64 %hi) #0 {
  %at.1 = getelementptr ptr, ptr %bufs, i64 1
  %y.p = load ptr, ptr %at.1, align 8
  %at.2 = getelementptr ptr, ptr %bufs, i64 2
  %work = load ptr, ptr %at.2, align 8
  %var.0 = getelementptr i64, ptr %vars, i64 0
  %n.s = load i64, ptr %var.0, align 8
  call void @masked_sum_p1.items(ptr %y.p, ptr %work, i64 %n.s, i64 %lo, i64 %hi)
  ret void
}
define internal void @masked_sum_p1.items(ptr noalias %y.p, ptr noalias readonly %work, i64 %n.s, i64 %lo, i64 %hi) #0 {
entry:
  %some = icmp slt i64 %lo, %hi
  br i1 %some, label %items, label %done
items:
  %item = phi i64 [ %lo, %entry ], [ %item.next, %next ]
  br label %loop1
loop1:
  %i1 = phi i64 [ 0, %items ], [ %i1.next, %loop1 ]
  %v2 = phi float [ 0x0000000000000000, %items ], [ %v5, %loop1 ]
  %v3 = getelementptr float, ptr %work, i64 %i1
  %v4 = load float, ptr %v3, align 4
  %v5 = fadd float %v2, %v4
  %i1.next = add nuw nsw i64 %i1, 1
  %i1.more = icmp slt i64 %i1.next, 4
  br i1 %i1.more, label %loop1, label %after1
after1:
  %v6 = icmp slt i64 0, %n.s
  br i1 %v6, label %then7, label %after7
then7:
  store float %v5, ptr %y.p, align 4
  br label %after7
after7:
  br label %next
next:
  %item.next = add nuw nsw i64 %item, 1
  %more = icmp slt i64 %item.next, %hi
  br i1 %more, label %items, label %done
done:
  ret void
}
declare <8 x float> @llvm.masked.load.v8f32.p0(ptr, i32, <8 x i1>, <8 x float>)
attributes #0 = { nounwind "target-cpu"="x86-64-v4" "tune-cpu"="cascadelake" "prefer-vector-width"="512" "target-features"="+avx512vnni" }
!0 = !{i32 1}
!1 = !{}
